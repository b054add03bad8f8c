# Uses the client as a program does. The test gives $FAIRLIMIT_URL, and the token.
import sys

sys.path.insert(0, "../../../../examples/python")
from fairlimit import Refused, turn

token, act = sys.argv[1], sys.argv[2]
if act == "wait":
    with turn("a/b ü", token=token) as t:
        print("went", t.waited_ms)
elif act == "try":
    try:
        with turn("a/b ü", token=token, timeout="1s"):
            pass
    except Refused as refused:
        print("refused", refused.args[0] > 3500)
elif act == "settle":
    with turn("llm", token=token, tokens=1200) as t:
        t.used["tokens"] = 700
elif act == "fail":  # what cannot be settled is a warning
    try:
        with turn("llm", token=token, tokens=1) as t:
            t.used["points"] = 1
            raise KeyError()
    except KeyError:
        print("own error")
