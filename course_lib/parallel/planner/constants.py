"""The planner's fitted constants. Each stands for one physical quantity and is the same for every row of every source.

They were chosen on half of the published rows (`bench.planner.rows.in_fit_half`) and are checked on the other
half.
"""

ALIGNED = 64  # elements: 128 bytes in 16 bits, the granularity at which A100 and later feed tensor cores (NVIDIA 2023)
UNALIGNED_SHARE = 0.70  # of the rate that is left if a width is no multiple of ALIGNED
TILE = 128  # rows and columns of the output that one processor computes at a time
LAST_WAVE = 0.25  # of a wave, lost on average because the last wave of tiles is not full
KERNEL_SECONDS = 2e-6  # from the end of a kernel to the start of the next on the device
EAGER = 3.0  # times the elementwise bytes of fused kernels: casts and copies that fusion avoids
FLASH_BACKWARD = 0.8  # of the forward pass's rate that fused attention's backward pass reaches, Dao (2023)
NATIVE_ATTENTION = 1.65  # times the rate of "flash" in kernels rewritten for Hopper and later, Shah et al. (2024)
# random numbers/s of one processor for dropout: 100 integer operations for four (Philox 4x32 with ten rounds, Salmon et
# al. 2011) on 64 lanes at 1.6 GHz; the fused kernel hides none of them (Ma et al. 2024, arXiv 2410.07531)
DROPOUT_DRAWS = 4 * 64 * 1.6e9 / 100
ASYNC_TP_HIDES = 0.5  # of tensor-parallel messages that leave in parts between parts of the products
HOST_BACKWARD = 1.8  # times a forward pass's launches that a backward pass needs
# parameters/s that a server's processors update for each of its eight devices, while gradients and weights travel:
# Qwen 72B on 32 A100 took about 10 s (DeepSpeed issue 6834, 2024)
HOST_ADAM = 72.7e9 / 32 / 10
MESSAGE_SECONDS = 20e-6  # latency of a message between neighbors of a pipeline or of a ring of context ranks
MIXTURE_LAUNCH = (
    2.5e-3  # s, forward and again backward, until the processor knows how many rows each expert has and has
)
#   launched its kernels; the all-to-all runs meanwhile
# processors that carry an all-to-all while the others compute: `moe_hybridep_num_sms` of Megatron-Bridge (2026)
ALL_TO_ALL_PROCESSORS = 32
