# SPDX-License-Identifier: MIT
"""What cannot be forecast, each said in one line; the process then ends with status 2.

Libraries with kernels of their own are refused when they are used, not when they are imported:
other packages import them only because they are there.
"""
import ctypes
import platform

from . import imports, words

TORCH_MIN = (2, 4)
STATUS = 2

# module -> what of it takes memory on the GPU that the stand-in does not know
_KERNELS = {
    "bitsandbytes.functional": ("quantize_blockwise", "quantize_4bit", "dequantize_4bit",
                                "optimizer_update_8bit_blockwise", "optimizer_update_32bit"),
    "bitsandbytes.nn.modules": ("Linear4bit", "Linear8bitLt", "StableEmbedding"),
    "bitsandbytes.optim.optimizer": ("Optimizer8bit",),
    "flash_attn.flash_attn_interface": (
        "flash_attn_func", "flash_attn_varlen_func", "flash_attn_qkvpacked_func",
        "flash_attn_kvpacked_func", "flash_attn_varlen_qkvpacked_func",
        "flash_attn_varlen_kvpacked_func", "flash_attn_with_kvcache"),
    "xformers.ops": ("memory_efficient_attention", "memory_efficient_attention_forward"),
    "apex.optimizers": ("FusedAdam", "FusedLAMB", "FusedSGD", "FusedNovoGrad"),
    "apex.normalization": ("FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm"),
    "deepspeed": ("initialize", "init_inference"),
    "transformer_engine.pytorch": ("Linear", "LayerNormLinear", "LayerNormMLP",
                                   "TransformerLayer"),
}

_last_word = None  # tells the recording, once there is one


def on_refused(function):
    global _last_word
    _last_word = function


def refuse(text):
    words.say(text)
    if _last_word:
        _last_word(text)
    words.leave(STATUS)


def check_platform():
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        refuse("wanted Linux on x86_64, found %s on %s; run the forecast on such a machine"
               % (system, machine))


def check_torch(torch):
    version = str(getattr(torch, "__version__", "?"))
    if not getattr(torch.version, "cuda", None):
        refuse("wanted a PyTorch built for CUDA, found %s (%s); install the one from PyPI for "
               "Linux, it needs no GPU" % (version, "ROCm" if getattr(torch.version, "hip", None)
                                           else "CPU only"))
    numbers = version.split("+")[0].split(".")[:2]
    if all(part.isdigit() for part in numbers) and tuple(map(int, numbers)) < TORCH_MIN:
        refuse("wanted PyTorch %d.%d or newer, found %s; pip install -U torch"
               % (TORCH_MIN + (version,)))


def check_allocator(torch):
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        refuse("wanted PyTorch's native allocator, found %s, which records nothing; leave backend "
               "out of PYTORCH_CUDA_ALLOC_CONF" % backend)


def check_stand_in():
    """The loader forgets LD_PRELOAD for programs of other rights, and launchers may clear it."""
    if not hasattr(ctypes.CDLL(None), "plm_phantom_counts"):
        refuse("wanted the library that stands in for the GPU in this process, found none: "
               "something between the command and Python dropped LD_PRELOAD; run Python directly")


def begin():
    for name, wanted in _KERNELS.items():
        imports.after(name, lambda module, wanted=wanted: _guard(module, wanted))


def _guard(module, wanted):
    for name in wanted:
        thing = getattr(module, name, None)
        if isinstance(thing, type):
            thing.__init__ = _refusing(module, name)
        elif callable(thing):
            setattr(module, name, _refusing(module, name))


def _refusing(module, name):
    library = module.__name__.split(".")[0]

    def called(*_, **__):
        refuse("%s: %s.%s has kernels of its own, which the forecast does not stand in for; "
               "forecast the script without %s" % (words.line() or "?", library, name, library))

    return called
