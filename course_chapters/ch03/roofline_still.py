"""The roofline of one device with kernels of a transformer under it, each where its counted bytes put it.

`python -m course_chapters.ch03.roofline_still` writes chapter 03's copy again.
"""

from pathlib import Path

from course_chapters.ch03.roofline import Point, Roof, roofline
from course_lib.draw import style
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.roofline import attention, decode, machine, matmul, relu
from course_lib.estimate.units import GB, number_text

CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "03_hardware_and_roofline"
CHAPTER_COPY = CHAPTER / "figures" / "roofline.svg"


def transformer_roofline(device: str = "H100 SXM", model: str = "llama3-70b", context: int = 8192) -> Picture:
    """Kernels of a transformer under the roof of a device; every intensity is counted from shapes."""
    one, shape = machine(device, wire=None), facts.model(model)
    hidden, ffn = shape.hidden, shape.ffn
    cache = attention(1, shape.heads, 1, context, shape.head_dim, kv_heads=shape.kv_heads)
    points = [
        Point("ReLU, any size", relu(1).memory_intensity),
        Point("decode, batch 1", decode(shape.params, 1).memory_intensity),
        Point("attention over a cache, any batch", cache.memory_intensity),
        Point("decode, batch 64", decode(shape.params, 64).memory_intensity),
        Point("a layer on 256 tokens", matmul(256, hidden, ffn).memory_intensity, side="right"),
        Point("matmul of 4096", matmul(4096, 4096, 4096).memory_intensity, side="over"),
        Point(f"a layer on {context:,} tokens", matmul(context, hidden, ffn).memory_intensity, side="under"),
    ]
    roof = Roof(one.flops, one.bandwidth, "memory", f"memory: {number_text(one.bandwidth / GB)} GB/s × intensity")
    return roofline(
        roof, points, title=f"What one {device} can reach at most, by intensity", span=(0.1, 2e4), height=4.0
    )


if __name__ == "__main__":
    picture = transformer_roofline()
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
