# SPDX-License-Identifier: MIT
"""Builds the wheel: the instruments' program with every library inside, and the recorder.

A build backend as pip knows them (PEP 517), on Python 3.11's own library alone; scripts/wheel calls
it too. The program is linked statically, C library included, so the wheel asks nothing of the
machine but its processor and a kernel; that is looked up in the finished file, and the wheel's name
says no more than was found. The same sources and tools give the same bytes.
"""
import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PROGRAM = os.path.join(ROOT, "build-wheel", "plimsoll")

# Linked into the program: their licences travel with it. Debian keeps them here.
LICENCES = "/usr/share/doc/%s/copyright"
PACKAGES = ("libjansson-dev", "liblzma-dev", "libzstd-dev", "zlib1g-dev",
            "libpcre2-dev", "libutf8proc-dev", "libc6-dev")

MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF file
# A static program needs no C library, but a kernel. The oldest systems that these tags name have
# Linux 3.10 (manylinux2014) or newer (musllinux_1_1).
KERNEL_OF_TAGS = (3, 10, 0)
TAGS = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")

ELF_INTERPRETER, ELF_NOTE = 3, 4  # p_type
NOTE_ABI_TAG = 1


class NotPortable(Exception):
    pass


def _kernel_of_notes(notes):
    """(3, 2, 0) from the GNU note that says which kernel the C library was built for, or None."""
    at = 0
    while at + 12 <= len(notes):
        name_bytes, words_bytes, kind = struct.unpack_from("<III", notes, at)
        words = at + 12 + (name_bytes + 3) // 4 * 4
        if kind == NOTE_ABI_TAG and notes[at + 12:at + 16] == b"GNU\0" and words_bytes >= 16:
            return struct.unpack_from("<4I", notes, words)[1:]
        at = words + (words_bytes + 3) // 4 * 4
    return None


def platform_tag(program):
    """The part of the wheel's name that says where these bytes of a program run."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise NotPortable("not a program for 64-bit Linux")
    machine = MACHINES.get(struct.unpack_from("<H", program, 18)[0])
    table, = struct.unpack_from("<Q", program, 32)
    entry_bytes, count = struct.unpack_from("<HH", program, 54)
    kernel = None
    for entry in range(table, table + entry_bytes * count, entry_bytes):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", program, entry)
        if kind == ELF_INTERPRETER:
            raise NotPortable("it is linked to shared libraries")
        if kind == ELF_NOTE:
            kernel = kernel or _kernel_of_notes(program[offset:offset + size])
    if not machine or not kernel:
        raise NotPortable("its processor or its kernel is not known")
    if kernel > KERNEL_OF_TAGS:
        raise NotPortable("it wants Linux %d.%d.%d" % kernel)
    return ".".join("%s_%s" % (tag, machine) for tag in TAGS)


def _project():
    import tomllib  # Python 3.11: to build only

    with open(os.path.join(HERE, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    with open(os.path.join(ROOT, "include", "plimsoll", "version.h")) as file:
        project["version"] = re.search(r'define PLM_VERSION "([^"]*)"', file.read()).group(1)
    return project


def _metadata(project):
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + project["version"],
             "Summary: " + project["description"], "License: " + project["license"],
             "Keywords: " + ",".join(project["keywords"]),
             "Requires-Python: " + project["requires-python"]]
    lines += ["Classifier: " + name for name in project["classifiers"]]
    lines += ["License-File: " + name for name, _ in _licences()]
    lines += ["Description-Content-Type: text/markdown", ""]
    lines.append(_read(HERE, project["readme"]).decode())
    return "\n".join(lines).encode()


def _read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def _licences():
    """(name, text) of ours and of each library that is inside the program."""
    texts = [("LICENSE", _read(ROOT, "LICENSE"))]
    for package in PACKAGES:
        texts.append(("LICENSE." + package.replace("-dev", ""), _read(LICENCES % package)))
    return texts


def _build_program():
    jobs = "-j%d" % (os.cpu_count() or 1)
    build = ["cmake", "--build", "--preset", "wheel", jobs]
    for command in (["cmake", "--preset", "wheel"], build):
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    return _read(PROGRAM)


def _contents(project, info):
    """(path, bytes, mode) of everything in the wheel but RECORD, and its tag."""
    program = _build_program()
    tag = "py3-none-" + platform_tag(program)
    wheel = "Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: false\n"
    first, _, platforms = tag.rpartition("-")
    for platform in platforms.split("."):
        wheel += "Tag: %s-%s\n" % (first, platform)
    data = info.replace(".dist-info", ".data")
    files = [("plimsoll_record.py", _read(HERE, "plimsoll_record.py"), 0o644),
             (data + "/scripts/plimsoll", program, 0o755),
             (info + "/METADATA", _metadata(project), 0o644),
             (info + "/WHEEL", wheel.encode(), 0o644)]
    files += [(info + "/licenses/" + name, text, 0o644) for name, text in _licences()]
    return files, tag


def _record(files, info):
    """Path, hash and size of each file, as an installer checks them."""
    lines = []
    for path, content, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (path, digest, len(content)))
    return "".join(lines) + info + "/RECORD,,\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = _project()
    stem = "%s-%s" % (project["name"].replace("-", "_"), project["version"])
    info = stem + ".dist-info"
    files, tag = _contents(project, info)
    files.append((info + "/RECORD", _record(files, info).encode(), 0o644))
    name = "%s-%s.whl" % (stem, tag)
    path = os.path.join(wheel_directory, name)
    with zipfile.ZipFile(path + ".tmp", "w") as archive:
        for inner, content, mode in files:
            entry = zipfile.ZipInfo(inner)  # dated 1980: the same bytes every time
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, compresslevel=9)
    os.replace(path + ".tmp", path)
    return name


class UnsupportedOperation(Exception):
    """The name that PEP 517 gives it."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("the sources are the repository: this folder needs what is above it")


def main(arguments):
    folder = arguments[0] if arguments else os.path.dirname(PROGRAM)
    os.makedirs(folder, exist_ok=True)
    try:
        print(os.path.join(folder, build_wheel(folder)))
    except ImportError:
        sys.stderr.write("wheel: wanted Python 3.11 or newer to build, found %s\n"
                         % sys.version.split()[0])
        return 2
    except FileNotFoundError as error:
        sys.stderr.write("wheel: %s is missing; scripts/setup installs it on Debian and Ubuntu\n"
                         % error.filename)
        return 2
    except (NotPortable, subprocess.CalledProcessError) as error:
        sys.stderr.write("wheel: the program cannot be put into a wheel: %s\n" % error)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
