"""Diffusers: one training step of a small U-Net, then a denoising loop by hand and in a pipeline."""

import json
import sys

import torch
from diffusers import DDIMPipeline, DDIMScheduler, DDPMScheduler, UNet2DConditionModel, UNet2DModel


def train(unet, device):
    schedule = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
    images = torch.rand(2, 3, 16, 16).to(device)
    losses = []
    for _ in range(2):
        noise = torch.randn(images.shape).to(device)
        steps = torch.randint(0, 100, (2,)).to(device)
        noisy = schedule.add_noise(images, noise, steps)
        loss = torch.nn.functional.mse_loss(unet(noisy, steps).sample, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def denoise(unet, text, device):
    """Classifier-free guidance, as in Stable Diffusion."""
    schedule = DDIMScheduler(num_train_timesteps=100)
    schedule.set_timesteps(3, device=device)
    latents = torch.randn(1, 4, 8, 8).to(device) * schedule.init_noise_sigma
    for step in schedule.timesteps:
        doubled = schedule.scale_model_input(torch.cat([latents] * 2), step)
        without, with_text = unet(doubled, step, encoder_hidden_states=text).sample.chunk(2)
        latents = schedule.step(without + 7.5 * (with_text - without), step, latents).prev_sample
    return latents


def main(device="neuron"):
    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).to(device)
    losses = train(unet, device)

    pipeline = DDIMPipeline(unet=unet.eval(), scheduler=DDIMScheduler(num_train_timesteps=100)).to(device)
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(1)
    image = pipeline(batch_size=1, generator=generator, num_inference_steps=3, output_type="np").images[0]

    guided = UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
        cross_attention_dim=16, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).to(device).eval()
    latents = denoise(guided, torch.randn(2, 5, 16).to(device), device)
    result = {
        "losses": losses,
        "image": image.reshape(-1)[:16].tolist(),
        "latents": latents.flatten()[:16].tolist(),
        "devices": sorted({p.device.type for p in unet.parameters()}),
    }
    print("RESULT", json.dumps({"device": str(latents.device), **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
