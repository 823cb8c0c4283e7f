# SPDX-License-Identifier: MIT
"""Nothing of a forecast is sent: trackers of experiments are switched off, uploads are left out.

The environment switches off those that ask it. Scripts that say `wandb.init(mode="online")`
themselves are stronger than the environment, so the calls that open a run are answered as well.
"""
import os

from . import imports, writes

_ENVIRONMENT = {"WANDB_MODE": "disabled", "WANDB_SILENT": "true", "COMET_MODE": "disabled",
                "NEPTUNE_MODE": "debug", "CLEARML_OFFLINE_MODE": "1", "SWANLAB_MODE": "disabled",
                "DISABLE_MLFLOW_INTEGRATION": "TRUE", "HF_HUB_DISABLE_TELEMETRY": "1",
                "DVCLIVE_TEST": "1"}

# module -> functions and classes that open a run; what they give does nothing
_RUNS = {"comet_ml": ("Experiment", "ExistingExperiment", "OfflineExperiment", "start"),
         "aim": ("Run",), "dvclive": ("Live",), "trackio": ("init", "log", "finish"),
         "mlflow": ("set_tracking_uri", "set_registry_uri")}
# module -> function and the argument that switches it off
_SWITCHES = {"wandb": ("init", {"mode": "disabled"}), "neptune": ("init_run", {"mode": "debug"}),
             "swanlab": ("init", {"mode": "disabled"})}
_UPLOADS = ("upload_file", "upload_folder", "upload_large_folder", "create_repo", "create_commit",
            "create_branch", "create_tag", "delete_file", "delete_folder", "delete_repo",
            "delete_branch", "delete_tag", "move_repo", "update_repo_settings",
            "update_repo_visibility", "super_squash_history", "preupload_lfs_files")


class Nothing:
    """Takes every call and every attribute, and is nothing."""

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __str__(self):
        return ""

    def __setitem__(self, key, value):
        pass

    def __getitem__(self, key):
        return self


def begin(wanted):
    os.environ.update(_ENVIRONMENT)
    os.environ["MLFLOW_TRACKING_URI"] = "file:" + os.path.join(wanted.out, "mlflow")
    for name, wanted_names in _RUNS.items():
        imports.after(name, lambda module, names=wanted_names: _answer(module, names))
    for name, (function, given) in _SWITCHES.items():
        imports.after(name, lambda module, function=function, given=given:
                      _switch_off(module, function, given))
    imports.after("huggingface_hub.hf_api", _keep_at_home)
    imports.after("torch.utils.tensorboard.writer", lambda module: _silence(module.SummaryWriter))
    imports.after("tensorboardX.writer", lambda module: _silence(module.SummaryWriter))
    imports.after("clearml", lambda module: module.Task.set_offline(True))


def _answer(module, names):
    for name in names:
        if hasattr(module, name):
            setattr(module, name, Nothing())


def _switch_off(module, name, given):
    function = getattr(module, name, None)
    if function:
        setattr(module, name, lambda *args, **kwargs: function(*args, **dict(kwargs, **given)))


def _keep_at_home(module):
    def leave_out(name):
        def call(*args, **kwargs):
            writes.note_text("huggingface_hub.%s(%s)" % (name, kwargs.get("repo_id", "")))
            return Nothing()

        return call

    for name in _UPLOADS:
        if hasattr(module.HfApi, name):
            setattr(module.HfApi, name, leave_out(name))
        if hasattr(module, name):  # methods of one instance, bound at import
            setattr(module, name, leave_out(name))


def _silence(writer):
    """A writer of TensorBoard that keeps where it would write."""
    def begin(self, log_dir=None, *_, **more):
        self.log_dir = str(log_dir or more.get("logdir") or "runs")
        self.logdir = self.log_dir
        writes.note(os.path.join(self.log_dir, "events.out.tfevents"))

    def nothing(self, *_, **__):
        return None

    writer.__init__ = begin
    for name in dir(writer):
        if name.startswith("add_") or name in ("flush", "close"):
            setattr(writer, name, nothing)
