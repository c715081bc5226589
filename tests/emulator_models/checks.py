"""Models of transformers and a convolutional network: the emulated device against the CPU.

Every ``check_`` function is a test: see test_models_on_the_device.py. Weights are drawn on the
CPU and copied, so both devices start from the same numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

torch.set_num_threads(1)  # a few numbers each: threads would only wait
VOCABULARY = 64
SMALL = {"rtol": 2e-4, "atol": 2e-5}


def tokens(rows: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def llama() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": tokens(), "labels": tokens()}


def gpt2() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), {"input_ids": tokens(), "labels": tokens()}


def mixtral(**options: object) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """With transformers' default way to compute experts, which counts tokens with `histc` of integers."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, **options,
    )  # fmt: skip
    return MixtralForCausalLM(config), {"input_ids": tokens(), "labels": tokens()}


def mixtral_with_the_routers_loss() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    return mixtral(output_router_logits=True, router_aux_loss_coef=0.5)


def mixtral_with_a_loop_over_experts() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    return mixtral(experts_implementation="eager")


def whisper() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        max_source_positions=20, max_target_positions=32, dropout=0.0,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    sound = torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(2))
    return model, {"input_features": sound, "labels": tokens()}


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, stride=2, groups=4), torch.nn.GroupNorm(2, 8), torch.nn.SiLU(),
            torch.nn.ConvTranspose2d(8, 4, 2), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(16, 5),
        )  # fmt: skip

    def forward(self, images, labels):
        logits = self.body(images)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def convolutions() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    return Convolutions(), {"images": images, "labels": torch.tensor([0, 4, 2, 2])}


def placed(batch: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in batch.items()}


def moved(model: torch.nn.Module, device: str) -> torch.nn.Module:
    """A copy of the model on the device; shared weights stay shared."""
    return copy.deepcopy(model).to(device)


def step(model: torch.nn.Module, batch: dict[str, torch.Tensor], device: str, **options: bool):
    """One training step → (loss, logits, gradients, parameters and buffers after the update), on the host."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-5, **options)
    out = model(**placed(batch, device))
    out["loss"].backward()
    assert out["loss"].device.type == device and out["logits"].device.type == device
    grads = {name: p.grad.cpu().clone() for name, p in model.named_parameters() if p.grad is not None}
    optimizer.step()
    optimizer.zero_grad()
    state = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    return out["loss"].detach().cpu(), out["logits"].detach().cpu(), grads, state


def trains_alike(make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]) -> None:
    torch.manual_seed(0)
    model, batch = make()
    for options in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        here = step(copy.deepcopy(model), batch, "cpu", **options)
        there = step(moved(model, "neuron"), batch, "neuron", **options)
        for what, expected, found in zip(("loss", "logits", "gradients", "state"), here, there, strict=True):
            torch.testing.assert_close(
                found, expected, **SMALL, msg=lambda text, where=(options, what): f"{where}: {text}"
            )
        grads = here[2]
        assert grads and any(bool(grad.abs().max() > 1e-4) for grad in grads.values()), "nothing was learnt from"


def generates_alike(make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]], **options: object) -> None:
    torch.manual_seed(0)
    model, batch = make()
    model.eval()
    batch.pop("labels")
    if "input_ids" in batch:
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        batch["attention_mask"][1, :3] = 0  # padded on the left
    results = []
    for device in ("cpu", "neuron"):
        own = moved(model, device)
        torch.manual_seed(4)
        found = own.generate(**placed(batch, device), max_new_tokens=5, **options)
        assert found.device.type == device
        results.append(found.cpu())
    assert torch.equal(*results), results
    assert results[0].shape[1] > 1


def check_llama_trains():
    trains_alike(llama)


def check_llama_generates():
    generates_alike(llama, do_sample=False)


def check_llama_samples():
    generates_alike(llama, do_sample=True, temperature=0.8, top_k=20, top_p=0.9)


def check_llama_searches_beams():
    generates_alike(llama, do_sample=False, num_beams=2)


def check_gpt2_trains():
    trains_alike(gpt2)


def check_gpt2_generates():
    generates_alike(gpt2, do_sample=False)


def check_mixtral_trains():
    trains_alike(mixtral_with_the_routers_loss)


def check_mixtral_trains_with_a_loop_over_experts():
    trains_alike(mixtral_with_a_loop_over_experts)


def check_mixtral_generates():
    generates_alike(mixtral, do_sample=False)


def check_whisper_trains():
    trains_alike(whisper)


def check_whisper_generates():
    generates_alike(whisper, do_sample=False)


def check_convolutions_train():
    trains_alike(convolutions)


def check_gpt2_moves_with_its_shared_weight():
    """What torch does with a shared parameter is no choice of this device: watch for a change."""
    torch.manual_seed(0)
    model = gpt2()[0].to("neuron")
    shared = model.lm_head.weight is model.transformer.wte.weight
    same_kind = torch._has_compatible_shallow_copy_type(torch.empty(1), torch.empty(1, device="neuron"))
    assert shared == same_kind


def compiles_alike(make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]], **options: object) -> None:
    """A training step of the compiled model: its loss, gradients and update."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, batch = make()
    here = step(copy.deepcopy(model), batch, "cpu")
    own = moved(model, "neuron")
    own.compile(backend="neuron", dynamic=False, **options)
    before = compiled_graphs()
    there = step(own, batch, "neuron")
    assert compiled_graphs() >= before + 2, "a forward and a backward graph at least"
    for what, expected, found in zip(("loss", "logits", "gradients", "state"), here, there, strict=True):
        torch.testing.assert_close(found, expected, **SMALL, msg=lambda text, what=what: f"{what}: {text}")


def generates_alike_compiled(make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]) -> None:
    """Tokens of the compiled model: a cache of constant size, so that one token is one shape."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, batch = make()
    model.eval()
    prompt = {key: value for key, value in batch.items() if key != "labels"}
    if "input_ids" in prompt:
        prompt["attention_mask"] = torch.ones_like(prompt["input_ids"])
        prompt["attention_mask"][1, :3] = 0
    expected = copy.deepcopy(model).generate(**prompt, max_new_tokens=4, do_sample=False)
    own = moved(model, "neuron")
    own.forward = torch.compile(own.forward, backend="neuron", dynamic=False)
    own.generate(**placed(prompt, "neuron"), max_new_tokens=4, do_sample=False, cache_implementation="static")
    before = compiled_graphs()
    found = own.generate(**placed(prompt, "neuron"), max_new_tokens=4, do_sample=False, cache_implementation="static")
    assert before > 0 and torch.equal(found.cpu(), expected), (found, expected)


def compiled_graphs() -> int:
    return torch._dynamo.utils.counters["neuron"]["compiled_graphs"]


def check_llama_compiled():
    compiles_alike(llama, fullgraph=True)


def check_llama_generates_compiled():
    generates_alike_compiled(llama)


def check_gpt2_compiled():
    compiles_alike(gpt2)


def check_gpt2_generates_compiled():
    generates_alike_compiled(gpt2)


def check_mixtral_compiled():
    compiles_alike(mixtral_with_the_routers_loss)


def check_mixtral_generates_compiled():
    generates_alike_compiled(mixtral)


def check_whisper_compiled():
    compiles_alike(whisper)


def check_whisper_generates_compiled():
    generates_alike_compiled(whisper)


def check_convolutions_compiled():
    compiles_alike(convolutions)


def check_convolutions_of_channels_last_compiled():
    def make() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
        model, batch = convolutions()
        batch["images"] = batch["images"].to(memory_format=torch.channels_last)
        return model.to(memory_format=torch.channels_last), batch

    compiles_alike(make, fullgraph=True)
