"""stub until next"""
import builtins, os, types
plain = types.SimpleNamespace(open=builtins.open, exists=os.path.exists, replace=os.replace)
skipped = []
def begin(w): pass
