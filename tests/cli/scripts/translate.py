"""Train a seq2seq model with attention over packed GRU states, padding in a collate function, teacher forcing and greedy decoding."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

PAD, SOS, EOS = 0, 1, 2
MAX = 8
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
random.seed(0)
pairs = [([random.randint(3, 19) for _ in range(random.randint(2, MAX))],) * 2 for _ in range(12)]


def collate(batch):
    batch = sorted(batch, key=lambda pair: len(pair[0]), reverse=True)
    sources = [torch.tensor(source + [EOS]) for source, _ in batch]
    targets = [torch.LongTensor([SOS, *target, EOS]) for _, target in batch]
    lengths = torch.tensor([len(source) for source in sources])
    return pad_sequence(sources, batch_first=True, padding_value=PAD), lengths, pad_sequence(targets, batch_first=True)


class Encoder(nn.Module):
    def __init__(self, vocabulary=20, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.reduce = nn.Linear(2 * width, width)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths.cpu(), batch_first=True)
        states, hidden = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return self.reduce(states), torch.tanh(self.reduce(torch.cat((hidden[0], hidden[1]), dim=1))).unsqueeze(0)


class Decoder(nn.Module):
    def __init__(self, vocabulary=20, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(0.1)
        self.gru = nn.GRU(2 * width, width, batch_first=True)
        self.query, self.out = nn.Linear(width, width), nn.Linear(2 * width, vocabulary)

    def forward(self, token, hidden, states, mask):
        embedded = self.dropout(self.embedding(token))
        scores = torch.bmm(self.query(hidden[-1]).unsqueeze(1), states.transpose(1, 2)).squeeze(1)
        weights = F.softmax(scores.masked_fill(~mask, -1e9), dim=1)
        context = torch.einsum("bs,bsd->bd", weights, states).unsqueeze(1)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(torch.cat((output, context), dim=2)).squeeze(1), hidden, weights


encoder, decoder = Encoder().to(device), Decoder().to(device)
optimizers = [torch.optim.Adam(module.parameters(), lr=1e-3) for module in (encoder, decoder)]
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizers[0], patience=1)
criterion = nn.NLLLoss(ignore_index=PAD)
loader = DataLoader(pairs, batch_size=4, shuffle=True, collate_fn=collate)
for epoch in range(2):
    total = 0
    for source, lengths, target in loader:
        source, target = source.to(device), target.to(device)
        for optimizer in optimizers:
            optimizer.zero_grad()
        states, hidden = encoder(source, lengths)
        mask = source != PAD
        mask = mask[:, : states.size(1)]
        token, loss = target[:, :1], 0
        for t in range(1, target.size(1)):
            logits, hidden, _ = decoder(token, hidden, states, mask)
            loss += criterion(F.log_softmax(logits, dim=1), target[:, t])
            token = target[:, t : t + 1] if random.random() < 0.5 else logits.topk(1)[1].detach()
        loss.backward()
        for module, optimizer in zip((encoder, decoder), optimizers):
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
        total += loss.item() / target.size(1)
    plateau.step(total / len(loader))
    print(f"epoch {epoch}: {total / len(loader):.4f}")
encoder.eval(), decoder.eval()
with torch.no_grad():
    source, lengths, _ = collate(pairs[:1])
    states, hidden = encoder(source.to(device), lengths)
    token, words = torch.tensor([[SOS]], device=device), []
    for _ in range(MAX):
        logits, hidden, weights = decoder(token, hidden, states, torch.ones(1, states.size(1), dtype=torch.bool, device=device))
        _, best = logits.data.topk(1)
        if best.item() == EOS:
            break
        words.append(best.item())
        token = best.view(1, 1)
print("decoded", len(words), "of", MAX)
