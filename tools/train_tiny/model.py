# SPDX-License-Identifier: Apache-2.0
"""The network, in the architecture of Qwen3-MoE, written to be trained fast at this size.

Invariant: every expert is computed for every token and weighted by its gate, which is zero for the experts not
chosen. With 32 experts of 64 rows that is two plain matrix products a layer, and the result is that of sparse routing.
Shapes: B sequences of T tokens, H hidden size, E experts of width F, D head dimension.
"""
import torch
from torch import nn
from torch.nn import functional

CONFIG = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
MAX_POSITIONS = 4096


def rotate(x, cos, sin):
    """Rotary position embedding in the half-split layout; x [B, heads, T, D], cos and sin [T, D]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def linear(rows_in, rows_out):
    return nn.Linear(rows_in, rows_out, bias=False)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        hidden, head, eps = config["hidden_size"], config["head_dim"], config["rms_norm_eps"]
        experts, width = config["num_experts"], config["moe_intermediate_size"]
        self.q = linear(hidden, config["num_attention_heads"] * head)
        self.k = linear(hidden, config["num_key_value_heads"] * head)
        self.v = linear(hidden, config["num_key_value_heads"] * head)
        self.o = linear(config["num_attention_heads"] * head, hidden)
        self.q_norm = nn.RMSNorm(head, eps=eps)
        self.k_norm = nn.RMSNorm(head, eps=eps)
        self.input_norm = nn.RMSNorm(hidden, eps=eps)
        self.post_norm = nn.RMSNorm(hidden, eps=eps)
        self.router = linear(hidden, experts)
        self.gate = linear(hidden, experts * width)  # [E * F, H], expert by expert
        self.up = linear(hidden, experts * width)
        self.down = linear(experts * width, hidden)  # [H, E * F]

    def attention(self, x, cos, sin):
        batch, length, _ = x.shape
        head = self.config["head_dim"]

        def heads(projected):  # [B, T, heads * D] -> [B, heads, T, D]
            return projected.view(batch, length, -1, head)

        q = rotate(self.q_norm(heads(self.q(x))).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(heads(self.k(x))).transpose(1, 2), cos, sin)
        v = heads(self.v(x)).transpose(1, 2)
        group = q.shape[1] // k.shape[1]
        mixed = functional.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True
        )
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))

    def experts(self, x):
        """(output [B, T, H], balance loss, router z-loss, share of the choices per expert [E])."""
        batch, length, _ = x.shape
        experts, chosen = self.config["num_experts"], self.config["num_experts_per_tok"]
        with torch.autocast(x.device.type, enabled=False):  # router logits stay in fp32
            logits = functional.linear(x.float(), self.router.weight.float())
        probabilities = logits.softmax(-1)
        top, index = probabilities.topk(chosen, -1)
        weights = torch.zeros_like(probabilities).scatter(-1, index, top / top.sum(-1, keepdim=True))
        hot = torch.zeros_like(probabilities).scatter(-1, index, 1.0)
        load = hot.mean((0, 1))
        balance = experts * (load * probabilities.mean((0, 1))).sum() / chosen
        z_loss = (torch.logsumexp(logits, -1) ** 2).mean()
        hidden = functional.silu(self.gate(x)) * self.up(x)
        hidden = hidden.view(batch, length, experts, -1) * weights.to(hidden.dtype).unsqueeze(-1)
        return self.down(hidden.view(batch, length, -1)), balance, z_loss, load

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        output, balance, z_loss, load = self.experts(self.post_norm(x))
        return x + output, balance, z_loss, load


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])  # also the output matrix
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(config["hidden_size"], eps=config["rms_norm_eps"])
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=self.initial_deviation(name, parameter))
        head = config["head_dim"]
        frequencies = 1.0 / (config["rope_theta"] ** (torch.arange(0, head, 2).float() / head))
        angles = torch.outer(torch.arange(MAX_POSITIONS).float(), frequencies)
        angles = torch.cat((angles, angles), -1)  # [MAX_POSITIONS, D]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def initial_deviation(self, name, parameter):
        """1/sqrt of the inputs that are summed; half of it where a block writes into the residual stream."""
        if name.startswith("embedding"):
            return 0.02
        if name.endswith(".down.weight"):
            summed = self.config["moe_intermediate_size"] * self.config["num_experts_per_tok"]
        else:
            summed = parameter.shape[1]
        return summed**-0.5 * (0.5 if name.endswith((".o.weight", ".down.weight")) else 1)

    def forward(self, ids, targets=None):
        """Logits [B, T, vocab]; with targets (cross-entropy, balance loss, z-loss, load [layers, E])."""
        x = self.embedding(ids)
        cos, sin = self.cos[: ids.shape[1]].to(x.dtype), self.sin[: ids.shape[1]].to(x.dtype)
        balance = z_loss = 0
        loads = []
        for layer in self.layers:
            x, layer_balance, layer_z, load = layer(x, cos, sin)
            balance = balance + layer_balance
            z_loss = z_loss + layer_z
            loads.append(load)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        if targets is None:
            return logits
        loss = functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))
        return loss, balance / len(self.layers), z_loss / len(self.layers), torch.stack(loads)
