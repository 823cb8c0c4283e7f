# SPDX-License-Identifier: MIT
"""Checkpoints are written without their bytes, so that saving one costs neither time nor disk.

torch.save and safetensors keep shapes, kinds and devices, and the numbers of small tensors; a later
torch.load gives tensors that take the same memory. What calls them (save_pretrained, Trainer,
Lightning, accelerate) runs as it is, memory that it takes on the GPU included. Where `writes` keeps
a mirror, what C code would write to a path of the user's is left out and noted.

torch.save writes one line, MAGIC, and a pickle in which a tensor is a persistent id.
safetensors writes its own form, of which the data is a hole in the file.
"""
import ctypes
import io
import json
import os
import pickle

from . import imports, writes

MAGIC = b"plimsoll forecast: a checkpoint without its bytes\n"
SMALL_BYTES = 1 << 16  # of a tensor that keeps its numbers

# module -> functions in C that write to a path; left out where there is a mirror
_BY_PATH = {"cv2": ("imwrite",), "torchvision.io.image": ("write_png", "write_jpeg", "write_file"),
            "torchaudio": ("save",), "soundfile": ("write",), "torch.jit": ("save",),
            "torch.export": ("save",), "torch.onnx": ("export",), "onnx": ("save", "save_model")}
_DCP = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver")


def begin():
    imports.after("torch", _patch_torch)
    imports.after("safetensors", _patch_safe_open)
    imports.after("safetensors.torch", _patch_safetensors)
    for name in _DCP:
        imports.after(name, lambda module: _leave_out(module, ("save", "save_state_dict",
                                                               "async_save")))
    if not writes.is_mirrored():
        return
    for name, functions in _BY_PATH.items():
        imports.after(name, lambda module, functions=functions: _leave_out(module, functions))
    imports.after("transformers.tokenization_utils_base", lambda module: _leave_out(
        module.PreTrainedTokenizerBase, ("save_pretrained",)))
    imports.after("h5py", _patch_h5py)
    imports.after("sqlite3", _patch_sqlite)


def _leave_out(module, functions):
    def nothing(*args, **kwargs):
        for one in list(args) + list(kwargs.values()):
            if isinstance(one, (str, os.PathLike)):
                writes.note(one)
                break

    for name in functions:
        if hasattr(module, name):
            setattr(module, name, nothing)


# torch.save and torch.load


def _patch_torch(torch):
    save, load = torch.save, torch.load

    def save_light(obj, f, *args, **kwargs):
        if isinstance(obj, (torch.UntypedStorage, torch.TypedStorage)):  # pickle asks for these
            return save(obj, writes.place(f), *args, **kwargs)
        is_path = isinstance(f, (str, os.PathLike))
        if is_path:
            writes.note(f)
        data = io.BytesIO()
        with torch._C.DisableTorchFunction():
            _Pickler(torch, data).dump(obj)
        if not is_path:
            f.write(MAGIC + data.getvalue())
            return None
        with writes.plain.open(writes.place(f), "wb") as file:
            file.write(MAGIC + data.getvalue())

    def load_light(f, map_location=None, *args, **kwargs):
        data = _light_bytes(f)
        if data is None:
            f = writes.found(f) if isinstance(f, (str, os.PathLike)) else f
            return load(f, map_location, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            return _Unpickler(torch, io.BytesIO(data), map_location).load()

    torch.save = torch.serialization.save = save_light
    torch.load = torch.serialization.load = load_light


def _light_bytes(f):
    """The pickle behind our line, or None: it is a file of PyTorch's."""
    if isinstance(f, (str, os.PathLike)):
        try:
            with writes.plain.open(writes.found(f), "rb") as file:
                return file.read() if file.read(len(MAGIC)) == MAGIC else None
        except OSError:
            return None
    if not hasattr(f, "seek") or not hasattr(f, "tell"):
        return None
    start = f.tell()
    if f.read(len(MAGIC)) == MAGIC:
        return f.read()
    f.seek(start)
    return None


class _Pickler(pickle.Pickler):
    def __init__(self, torch, file):
        super().__init__(file, protocol=4)
        self.torch = torch

    def persistent_id(self, thing):
        torch = self.torch
        if type(thing) not in (torch.Tensor, torch.nn.Parameter) or (
                thing.layout is not torch.strided or thing.device.type == "meta"):
            return None
        storage = thing.untyped_storage()
        small = storage.nbytes() <= SMALL_BYTES
        there = storage.cpu() if small else None
        return ("tensor", storage._cdata, storage.nbytes(),
                ctypes.string_at(there.data_ptr(), there.nbytes()) if small and there.nbytes()
                else b"", str(thing.device), thing.dtype, tuple(thing.size()), thing.stride(),
                thing.storage_offset(), thing.requires_grad,
                isinstance(thing, torch.nn.Parameter))


class _Unpickler(pickle.Unpickler):
    def __init__(self, torch, file, where):
        super().__init__(file)
        self.torch = torch
        self.where = where
        self.storages = {}  # as saved -> as made: tensors that shared one share one again

    def persistent_load(self, known):
        torch = self.torch
        _, key, count, data, device, dtype, size, stride, offset, grad, parameter = known
        if key not in self.storages:
            made = torch.empty(count, dtype=torch.uint8, device=self._device(device))
            if data:
                made.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            self.storages[key] = made.untyped_storage()
        storage = self.storages[key]
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, offset, size, stride)
        if parameter:
            return torch.nn.Parameter(tensor, requires_grad=grad)
        return tensor.requires_grad_(grad)

    def _device(self, saved):
        where = self.where
        if where is None:
            return saved
        if isinstance(where, dict):
            return where.get(saved, saved)
        if callable(where) and not isinstance(where, self.torch.device):
            answer = where(self.torch.UntypedStorage(0), saved)
            return saved if answer is None else answer.device
        return where


# safetensors

_KINDS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
          "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8",
          "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}


def _patch_safe_open(module):
    safe_open = module.safe_open

    def safe_open_found(filename, *args, **kwargs):
        return safe_open(writes.found(filename), *args, **kwargs)

    module.safe_open = safe_open_found


def _patch_safetensors(module):
    def save_file(tensors, filename, metadata=None):
        writes.note(filename)
        _write_hollow(tensors, writes.place(filename), metadata)

    module.save_file = save_file
    if "safe_open" in vars(module):
        _patch_safe_open(module)


def _write_hollow(tensors, path, metadata):
    header, at, small = {}, 0, []
    if metadata:
        header["__metadata__"] = metadata
    for name, tensor in sorted(tensors.items(), key=lambda one: -one[1].element_size()):
        count = tensor.numel() * tensor.element_size()
        kind = _KINDS[str(tensor.dtype).split(".")[-1]]
        header[name] = {"dtype": kind, "shape": list(tensor.size()),
                        "data_offsets": [at, at + count]}
        if 0 < count <= SMALL_BYTES:
            small.append((at, tensor))
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with writes.plain.open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for offset, tensor in small:
            there = tensor.detach().cpu().contiguous()
            file.seek(8 + len(text) + offset)
            file.write(ctypes.string_at(there.data_ptr(), there.numel() * there.element_size()))
        file.truncate(8 + len(text) + at)


# Files of other libraries in C, opened by path: they open the mirror's.


def _patch_h5py(module):
    begin = module.File.__init__

    def begin_in_mirror(self, name, mode="r", *args, **kwargs):
        path = writes.found(name) if mode == "r" else writes.place(name, mode in ("a", "r+"))
        begin(self, path, mode, *args, **kwargs)

    module.File.__init__ = begin_in_mirror


def _patch_sqlite(module):
    connect = module.connect

    def connect_in_mirror(database, *args, **kwargs):
        if isinstance(database, (str, os.PathLike)) and str(database) not in ("", ":memory:") and (
                not kwargs.get("uri")):
            database = writes.place(database, keep=True)
        return connect(database, *args, **kwargs)

    module.connect = connect_in_mirror
