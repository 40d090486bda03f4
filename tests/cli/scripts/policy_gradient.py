"""Run REINFORCE and actor-critic steps in a custom environment, with Categorical, discounted returns and NumPy states."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Corridor:
    """An environment in which the agent has to walk to the right end. The state is (place, time)."""

    def __init__(self, length=5, limit=20):
        self.length, self.limit = length, limit

    def reset(self):
        self.place, self.time = 0, 0
        return np.array([0.0, 0.0], dtype=np.float32)

    def step(self, action):
        assert action in (0, 1)
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.time += 1
        done = self.place >= self.length or self.time >= self.limit
        return np.array([self.place, self.time], dtype=np.float32), 1.0 if self.place >= self.length else -0.1, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(2, 16)
        self.actor, self.critic = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
eps = np.finfo(np.float32).eps.item()
env, running = Corridor(), 0.0
for episode in range(3):
    state, done = env.reset(), False
    log_probs, values, rewards = [], [], []
    while not done:
        probs, value = policy(torch.from_numpy(state).float().unsqueeze(0))
        choice = Categorical(probs)
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        values.append(value.squeeze())
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    returns, R = [], 0.0
    for r in rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for log_prob, value, R in zip(log_probs, values, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, R))
    optimizer.zero_grad()
    loss = torch.cat(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    running = 0.05 * sum(rewards) + 0.95 * running
    print(f"episode {episode}: {len(rewards)} steps, reward {sum(rewards):.2f}, running {running:.2f}, loss {loss.item():.3f}")
print("finished")
