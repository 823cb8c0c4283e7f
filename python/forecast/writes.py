# SPDX-License-Identifier: MIT
"""Files that the script writes, moves or removes: with "hooks" they go to a private copy.

Where no overlay can be mounted, Python's own ways to the file system are replaced by ones that look
first into a mirror, a folder of ours that holds what the script has written under the same path.
`open("best.pt", "wb")` writes written/home/me/best.pt and leaves the old file whole; a later read,
os.path.exists or listdir of the script sees the new one. What was removed has an empty file in the
folder `gone`. All processes of a forecast share both folders.

    open("log.txt", "a")  the old log is copied to the mirror, then appended to
    os.remove("old.pt")   gone/home/me/old.pt/.gone is made; old.pt stays, unseen by the script

Not seen: C code that opens a path itself (`savers` knows some) and other programs.
"""
import builtins
import errno
import io
import os
import shutil
import stat
import sys
import types

from . import words

SKIPPED_MAX = 1000
COPY_BYTES_MAX = 1 << 30  # of an old file that is appended to


def _exists(path, lstat=os.lstat):
    """Python's own asks os.lstat, which will be ours."""
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


plain = types.SimpleNamespace(
    open=io.open, exists=_exists, replace=os.replace, os_open=os.open, stat=os.stat,
    lstat=os.lstat, access=os.access, listdir=os.listdir, scandir=os.scandir, mkdir=os.mkdir,
    rmdir=os.rmdir, unlink=os.unlink, rename=os.rename, readlink=os.readlink,
    symlink=os.symlink, link=os.link, rmtree=shutil.rmtree)

skipped = []  # what would have been written or removed, in order
_seen = set()
_mirror = None


def note(path, removed=False):
    """Keeps in mind, once, that the script would have written or removed this file."""
    note_text(("removed " if removed else "") + _near(path))


def note_text(text):
    if text not in _seen and len(skipped) < SKIPPED_MAX:
        _seen.add(text)
        skipped.append(text)


def _near(path):
    """A path below the current folder, from there."""
    try:
        path = os.path.abspath(os.fsdecode(path))
        near = os.path.relpath(path)
    except (OSError, TypeError, ValueError):
        return str(path)
    return path if near.startswith(os.pardir) else near


def is_mirrored():
    return _mirror is not None


def place(path, keep=False):
    """Where a file that `savers` writes goes: its place in the mirror, or itself."""
    if _mirror is None or not isinstance(path, (str, bytes, os.PathLike)):
        return path
    return _mirror.for_writing(_name(path), keep)


def found(path):
    """Where a file is read from."""
    return path if _mirror is None else _mirror.for_reading(path)


def begin(wanted):
    global _mirror
    if wanted.harmless != "hooks" or _mirror is not None:
        return
    _mirror = _Mirror(wanted.out)
    sys.dont_write_bytecode = True
    os.environ["TMPDIR"] = _mirror.temporary
    _install(_mirror)


def _name(path, last=False):
    """The whole path, past the links that the script made on its way; `last`: past the last too."""
    name = os.path.abspath(os.fsdecode(path))
    return name if _mirror is None else _mirror.past_links(name, last)


def _missing(path):
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class _Mirror:
    def __init__(self, out):
        self.out = out
        self.root = os.path.join(out, "written")
        self.gone = os.path.join(out, "gone")
        self.temporary = os.path.join(out, "t")
        for folder in (self.root, self.gone, self.temporary):
            os.makedirs(folder, exist_ok=True)
        self.own = tuple(os.path.join(folder, "") for folder in self._own_folders())

    def _own_folders(self):
        """Folders in which writing does no harm: ours, and the system's that are no disk."""
        caches = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        return [self.out, "/dev", "/proc", "/sys"] + [
            os.path.abspath(os.environ[name]) for name in caches if os.environ.get(name)]

    def is_own(self, path):
        return (path + os.sep).startswith(self.own)

    def copy_of(self, path):
        return self.root + path

    def shown(self, name):
        """What the link in the mirror at this place shows, by its own name; None: no link."""
        try:
            target = plain.readlink(self.copy_of(name))
        except OSError:
            return None
        return target[len(self.root):] if target.startswith(self.root + os.sep) else target

    def past_links(self, name, last):
        """Files below a link to a folder are that folder's, whose changes lie in the mirror too."""
        folder = name if last else os.path.dirname(name)
        while folder != os.sep and not self.is_own(folder):
            target = self.shown(folder)
            if target is not None:
                rest = os.path.relpath(name, folder)
                return self.past_links(os.path.normpath(os.path.join(target, rest)), last)
            folder = os.path.dirname(folder)
        return name

    def take_in(self, name, keep=True):
        """A place in the mirror that only shows a file gets one of its own: to be changed."""
        copy = self.copy_of(name)
        try:
            source = plain.readlink(copy)
        except OSError:
            return
        plain.unlink(copy)
        if keep:  # from the file itself: by its old name the script may have moved it away
            self._copy_bytes(source, copy)

    def _copy_bytes(self, source, copy):
        if not plain.exists(source):
            return
        if plain.stat(source).st_size > COPY_BYTES_MAX:
            raise OSError(errno.EFBIG, "too large to be copied for a forecast", source)
        with plain.open(source, "rb") as old, plain.open(copy, "wb") as new:
            shutil.copyfileobj(old, new)

    def is_gone(self, path):
        """Was the file removed, or a folder above it?"""
        while path != os.sep:
            if plain.exists(os.path.join(self.gone + path, ".gone")):
                return True
            path = os.path.dirname(path)
        return False

    def for_reading(self, path):
        """The path that shows what the script should see. Other things are given back as they are:
        numbers of open files, None."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return path
        name = _name(path)
        if self.is_own(name):
            return path
        copy = self.copy_of(name)
        if plain.exists(copy):
            return copy
        return copy if self.is_gone(name) else path

    def is_there(self, name):
        return plain.exists(self.for_reading(name))

    def for_writing(self, name, keep=False):
        """The place of a file in the mirror, in a folder that is there; `keep` its old bytes."""
        if self.is_own(name):
            return name
        folder = os.path.dirname(name)
        if not os.path.isdir(folder):
            raise _missing(name)
        copy = self.copy_of(name)
        self._make_folder(folder)
        old = self.for_reading(name)
        if keep and old != copy and os.path.isfile(name):
            self._copy_bytes(name, copy)
        else:
            self.take_in(name, keep)
        self._forget_gone(name)
        note(name)
        return copy

    def _make_folder(self, folder):
        if not plain.exists(self.copy_of(folder)) and folder != os.sep:
            self._make_folder(os.path.dirname(folder))
            try:
                plain.mkdir(self.copy_of(folder))
            except FileExistsError:  # another rank was faster
                pass

    def _forget_gone(self, name):
        try:
            plain.unlink(os.path.join(self.gone + name, ".gone"))
        except OSError:
            pass

    def make_folder(self, name):
        if self.is_there(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if not os.path.isdir(os.path.dirname(name)):
            raise _missing(name)
        was_gone = self.is_gone(name)
        self._make_folder(os.path.dirname(name))
        plain.mkdir(self.copy_of(name))
        if was_gone:
            self._hide_children(name)
        self._forget_gone(name)

    def _hide_children(self, name):
        """A folder that was removed and made again is empty."""
        if not plain.exists(name) or not stat.S_ISDIR(plain.stat(name).st_mode):
            return
        for child in plain.listdir(name):
            self._mark_gone(os.path.join(name, child))

    def _mark_gone(self, name):
        place = self.gone + name
        parts = place[len(self.gone) + 1:].split(os.sep)
        path = self.gone
        for part in parts:
            path = os.path.join(path, part)
            if not plain.exists(path):
                plain.mkdir(path)
        with plain.open(os.path.join(place, ".gone"), "w"):
            pass

    def remove(self, name, folder=False):
        seen = self.for_reading(name)
        if not plain.exists(seen):
            raise _missing(name)
        if folder and self.children(name):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
        if plain.exists(self.copy_of(name)):
            (plain.rmdir if folder else plain.unlink)(self.copy_of(name))
        if plain.exists(name):
            note(name, removed=True)
            self._mark_gone(name)

    def remove_tree(self, name):
        if not self.is_there(name):
            raise _missing(name)
        if plain.exists(self.copy_of(name)):
            plain.rmtree(self.copy_of(name))
        if plain.exists(name):
            note(name, removed=True)
            self._mark_gone(name)

    def move(self, source, target):
        seen = self.for_reading(source)
        if not plain.exists(seen):
            raise _missing(source)
        if not os.path.isdir(os.path.dirname(target)):
            raise _missing(target)
        copy = self.copy_of(target)
        self._make_folder(os.path.dirname(target))
        if seen == self.copy_of(source) or self.is_own(source):
            plain.rename(seen, target if self.is_own(target) else copy)
        else:
            self._show_at(source, copy)
        if not self.is_own(target):
            self._forget_gone(target)
            note(target)
        if not self.is_own(source) and plain.exists(source):
            note(source, removed=True)
            self._mark_gone(source)

    def _show_at(self, source, copy):
        """Shows an untouched file or folder at another place, without copying its bytes."""
        if not os.path.isdir(source):
            if plain.exists(copy):
                plain.unlink(copy)
            plain.symlink(source, copy)
            return
        plain.mkdir(copy)
        for child in plain.listdir(source):
            self._show_at(os.path.join(source, child), os.path.join(copy, child))

    def children(self, name):
        """name of a child -> the folder that it is read from."""
        seen = {}
        if plain.exists(name) and not self.is_gone(name):
            seen = {child: name for child in plain.listdir(name)
                    if not plain.exists(os.path.join(self.gone + name, child, ".gone"))}
        copy = self.copy_of(name)
        if plain.exists(copy):
            seen.update((child, copy) for child in plain.listdir(copy))
        return seen


class _Entries:
    """What os.scandir gives: an iterator that can be closed."""

    def __init__(self, entries):
        self.entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass


class _Call:
    """A function that stays itself as an attribute of a class, as the built-in ones do."""

    def __init__(self, function, name):
        self.function = function
        self.__name__ = name

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def _is_path(path, kwargs):
    """Is this a path from the current folder, not an open file or one below an open folder?"""
    return isinstance(path, (str, bytes, os.PathLike)) and all(
        kwargs.get(name) is None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"))


def _install(mirror):
    builtins.open = io.open = _Call(_opening(mirror), "open")
    for name, function in dict(_reading(mirror), **_changing(mirror)).items():
        setattr(os, name, _Call(function, name))
    # Modules that ask `os.stat in os.supports_fd` and the like.
    for known in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        for name in ("stat", "scandir", "listdir", "open", "unlink", "rmdir", "mkdir", "chmod",
                     "utime"):
            if getattr(plain, "os_open" if name == "open" else name, None) in known:
                known.add(getattr(os, name))
    rmtree = _Call(lambda path, *a, **k: _remove_tree(mirror, path, *a, **k), "rmtree")
    rmtree.avoids_symlink_attacks = plain.rmtree.avoids_symlink_attacks
    shutil.rmtree = rmtree


def _opening(mirror):
    def open(file, mode="r", *args, **kwargs):
        if kwargs.get("opener") is not None:  # it calls os.open
            return plain.open(file, mode, *args, **kwargs)
        if _is_path(file, {}) and set(mode) & set("wax+"):
            name = _name(file)
            if "x" in mode and mirror.is_there(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            if "r" in mode and not mirror.is_there(name):
                raise _missing(name)
            if os.path.isdir(name):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
            if not _is_special(name):
                file = mirror.for_writing(name, keep="w" not in mode)
        elif _is_path(file, {}):
            file = mirror.for_reading(file)
        return plain.open(file, mode, *args, **kwargs)

    return open


def _is_special(name):
    """A pipe or a device holds nothing that could be lost."""
    try:
        mode = plain.stat(name).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _reading(mirror):
    def reads(name):
        function = getattr(plain, name)

        def call(path=None, *args, **kwargs):
            if path is None:
                path = "."
            return function(mirror.for_reading(path) if _is_path(path, kwargs) else path,
                            *args, **kwargs)

        return call

    def listdir(path="."):
        if not _is_path(path, {}) or mirror.is_own(_name(path)):
            return plain.listdir(path)
        plain.listdir(mirror.for_reading(path))  # raises as it should
        return list(mirror.children(_name(path, last=True)))

    def scandir(path="."):
        if not _is_path(path, {}) or mirror.is_own(_name(path)):
            return plain.scandir(path)
        plain.scandir(mirror.for_reading(path)).close()
        children = mirror.children(_name(path, last=True))
        if set(children.values()) <= {_name(path)} and len(children) == len(plain.listdir(path)):
            return plain.scandir(path)
        return _Entries([entry for folder in sorted(set(children.values()))
                         for entry in plain.scandir(folder)
                         if children.get(entry.name) == folder])

    calls = {name: reads(name) for name in ("stat", "lstat", "access", "readlink")}
    return dict(calls, listdir=listdir, scandir=scandir)


def _changing(mirror):
    """The replaced functions that write, by the name in os."""
    calls = {name: _quiet(mirror, getattr(os, name))
             for name in ("chmod", "utime", "truncate", "chown")}
    calls.update(
        open=_os_open(mirror), mkdir=_one(mirror, plain.mkdir, mirror.make_folder),
        rmdir=_one(mirror, plain.rmdir, lambda name: mirror.remove(name, folder=True)),
        unlink=_one(mirror, plain.unlink, mirror.remove),
        remove=_one(mirror, plain.unlink, mirror.remove),
        rename=_move(mirror, plain.rename), replace=_move(mirror, plain.replace),
        symlink=_link(mirror, plain.symlink), link=_link(mirror, plain.link))
    return calls


def _os_open(mirror):
    def open(path, flags, mode=0o777, *, dir_fd=None):
        if not _is_path(path, {"dir_fd": dir_fd}):
            return plain.os_open(path, flags, mode, dir_fd=dir_fd)
        name = _name(path)
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) or _is_special(name):
            return plain.os_open(mirror.for_reading(path), flags, mode)
        if flags & os.O_EXCL and flags & os.O_CREAT and mirror.is_there(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if not flags & os.O_CREAT and not mirror.is_there(name):
            raise _missing(name)
        place = mirror.for_writing(name, keep=not flags & os.O_TRUNC)
        return plain.os_open(place, flags | os.O_CREAT, mode)

    return open


def _one(mirror, function, mirrored):
    def call(path, *args, **kwargs):
        if not _is_path(path, kwargs) or mirror.is_own(_name(path)):
            return function(path, *args, **kwargs)
        return mirrored(_name(path))

    return call


def _move(mirror, function):
    def call(source, target, *args, **kwargs):
        if not _is_path(source, kwargs) or (
                mirror.is_own(_name(source)) and mirror.is_own(_name(target))):
            return function(source, target, *args, **kwargs)
        return mirror.move(_name(source), _name(target))

    return call


def _link(mirror, function):
    """A link to what the script should see; a hard link is taken for a symbolic one. What a
    symbolic link names counts from the link, what a hard link does from the current folder."""
    def call(source, target, *args, **kwargs):
        if not _is_path(target, kwargs) or mirror.is_own(_name(target)):
            return function(source, target, *args, **kwargs)
        target = _name(target)
        if mirror.is_there(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        at = os.path.dirname(target) if function is plain.symlink else os.getcwd()
        source = _name(os.path.join(at, os.fsdecode(source)))
        plain.symlink(mirror.for_reading(source), mirror.for_writing(target))

    return call


def _quiet(mirror, function):
    """Times, rights and lengths: of a file in the mirror, or not at all."""
    def call(path, *args, **kwargs):
        if not _is_path(path, kwargs) or mirror.is_own(_name(path)):
            return function(path, *args, **kwargs)
        if not mirror.is_there(_name(path)):
            raise _missing(_name(path))
        mirror.take_in(_name(path))
        copy = mirror.copy_of(_name(path))
        return function(copy, *args, **kwargs) if plain.exists(copy) else None

    return call


def _remove_tree(mirror, path, ignore_errors=False, *args, **kwargs):
    if not _is_path(path, kwargs) or mirror.is_own(_name(path)):
        return plain.rmtree(path, ignore_errors, *args, **kwargs)
    try:
        return mirror.remove_tree(_name(path))
    except OSError as error:
        if not ignore_errors:
            raise
        words.say("a folder could not be removed: " + words.why(error))
