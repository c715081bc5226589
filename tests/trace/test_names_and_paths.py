"""Module paths, and whose code a file is."""

from __future__ import annotations

import os

import pytest

from neuron_explorer.trace.modules import module_paths
from neuron_explorer.trace.paths import PathRules
from neuron_explorer.trace.text import TextTable

NONE = (0, "", "", 0)


def test_paths_below_a_root():
    modules = [
        NONE,
        (0, "", "GPT", 1),
        (1, "layers.3", "Block", 2),
        (2, "mlp", "MLP", 3),
        (0, "", "CrossEntropyLoss", 4),
    ]
    assert module_paths(modules) == ["", "GPT", "layers.3", "layers.3.mlp", "CrossEntropyLoss"]


def test_two_roots_with_the_same_paths_are_told_apart():
    modules = [NONE, (0, "", "GPT", 1), (1, "fc", "Linear", 2), (0, "", "GPT", 3), (3, "fc", "Linear", 4),
               (0, "", "Head", 5), (5, "out", "Linear", 6)]  # fmt: skip
    assert module_paths(modules) == ["", "GPT", "GPT:fc", "GPT#2", "GPT#2:fc", "Head", "out"]


def test_the_same_module_called_twice_or_from_two_parents():
    modules = [
        NONE,
        (0, "", "Net", 1),
        (1, "a", "A", 2),
        (2, "shared", "S", 3),
        (1, "b", "B", 4),
        (4, "shared", "S", 3),
    ]
    assert module_paths(modules) == ["", "Net", "a", "a.shared", "b", "b.shared"]


def test_a_submodule_called_on_its_own_keeps_its_path():
    modules = [NONE, (0, "", "Encoder", 2), (1, "fc", "Linear", 3), (0, "", "Net", 1), (3, "encoder", "Encoder", 2)]
    assert module_paths(modules) == ["", "encoder", "encoder.fc", "Net", "encoder"]


def test_a_loss_made_in_every_step_is_one_module():
    modules = [NONE, *((0, "", "Loss", i) for i in range(1, 100))]
    assert set(module_paths(modules)[1:]) == {"Loss"}


def test_a_module_found_nowhere_in_its_caller_is_a_root():
    modules = [NONE, (0, "", "Net", 1), (1, "", "Helper", 2), (2, "fc", "Linear", 3)]
    assert module_paths(modules) == ["", "Net", "Helper", "fc"]


def test_modules_that_contain_each_other_end():
    modules = [NONE, (0, "", "A", 1), (1, "b", "B", 2), (0, "", "B", 2), (3, "a", "A", 1)]
    assert len(module_paths(modules)) == 5


HOME = os.path.expanduser("~")


def rules(**session):
    base = {
        "cwd": "/proj", "script": "train.py",
        "user_code": {"include": None, "exclude": ["/src/torch", "/opt/py/lib/python3.11"]},
    }  # fmt: skip
    return PathRules({**base, **session})


@pytest.mark.parametrize(
    ("filename", "shown", "user", "torch"),
    [
        ("/proj/train.py", "train.py", True, False),
        ("/proj/pkg/model.py", "pkg/model.py", True, False),
        ("train.py", "train.py", True, False),
        ("/opt/py/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py", False, True),
        ("/opt/py/lib/python3.11/site-packages/transformers/x.py", "transformers/x.py", False, False),
        ("/proj/venv/lib/python3.12/site-packages/lib/x.py", "lib/x.py", False, False),
        ("/opt/py/lib/python3.11/threading.py", "python3.11/threading.py", False, False),
        ("/usr/lib/python3.13t/contextlib.py", "python3.13t/contextlib.py", False, False),
        ("/src/torch/nn/functional.py", "torch/nn/functional.py", False, True),
        (f"{HOME}/lib/x.py", "~/lib/x.py", True, False),
        ("/home/somebody/x.py", "~/x.py", True, False),
        ("/data/x.py", "/data/x.py", True, False),
        ("<ipython-input-1-abc>", "<ipython-input-1-abc>", True, False),
        ("<string>", "<string>", True, False),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", False, False),
        ("<eval_with_key>.3", "<eval_with_key>.3", False, True),
        ("<eval_with_key>.3 from /data/me/torch/fx/x.py:1 in wrapped", "<eval_with_key>.3", False, True),
        ("<made by /proj/lib/python3.11/site-packages/pkg/x.py>", "<made by pkg/x.py>", True, False),
        ("/tmp/torchinductor_me/ab/c" + "a" * 45 + ".py", "torchinductor/ab/c" + "a" * 45 + ".py", False, True),
        ("/x/site-packages/neuron_explorer/record/runner.py", "neuron_explorer/record/runner.py", False, True),
        ("/x/site-packages/neuron_explorer/demo/model.py", "neuron_explorer/demo/model.py", True, False),
        ("/proj/ünïcode/модель.py", "ünïcode/модель.py", True, False),
        ("", "?", False, False),
    ],
)  # fmt: skip
def test_whose_file_it_is(filename, shown, user, torch):
    info = rules().info(filename)
    assert (info.shown, info.user, info.torch) == (shown, user, torch)


def test_a_script_inside_site_packages_is_the_users():
    cwd = "/venv/lib/python3.11/site-packages/pkg"
    assert rules(cwd=cwd, script="__main__.py").info(f"{cwd}/__main__.py").user
    assert not rules(cwd=cwd, script="__main__.py").info(f"{cwd}/other.py").user


def test_user_code_is_a_setting():
    chosen = rules(user_code={"include": ["/venv/lib/python3.11/site-packages/transformers"], "exclude": []})
    assert chosen.info("/venv/lib/python3.11/site-packages/transformers/models/llama.py").user
    assert not chosen.info("/proj/train.py").user
    assert not chosen.info("/venv/lib/python3.11/site-packages/transformers_extra/x.py").user


def test_absolute_paths_on_request():
    assert rules(settings={"paths": "absolute"}).info("/proj/train.py").shown == "/proj/train.py"


def test_two_files_never_share_a_name():
    r = rules()
    assert r.info("/a/site-packages/lib/x.py").shown == "lib/x.py"
    assert r.info("/b/site-packages/lib/x.py").shown == "lib/x.py (2)"
    assert r.info("/a/site-packages/lib/x.py").shown == "lib/x.py"


def test_a_session_of_the_wrong_shape():
    for session in (
        {},
        {"user_code": 3, "cwd": 7, "settings": [], "script": {}},
        {"user_code": {"include": [5], "exclude": "x"}},
    ):
        PathRules(session).info("/a/b.py")


def test_text_tables_keep_only_what_rows_use():
    import numpy as np

    table = TextTable()
    codes = table.codes(["a", "b", "", "c", "a"])
    assert codes.tolist() == [0, 1, -1, 2, 0]
    column = table.column(np.array([2, -1, 2]))
    assert column.values == ["c"]
    assert column.codes.tolist() == [0, -1, 0]


def test_sentences_do_not_name_the_users_directory_of_generated_code():
    text = "cannot open '/tmp/torchinductor_me/ab/cxy.so' of torchinductor_x"
    shown = PathRules({"cwd": "/proj"}).without_directories(text)
    assert shown == "cannot open 'torchinductor/ab/cxy.so' of torchinductor_x"
