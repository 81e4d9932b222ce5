"""The numbers of proxy/messages.h, a copy of which lies beside this file: what the programs were built with."""

import os
import re

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "messages.h"), encoding="utf-8") as f:
    _NAMES = re.search(r"enum message_type {(.*?)\n};", f.read(), re.S)[1]
NUMBER = {name: n + 1 for n, name in enumerate(re.findall(r"^\tMSG_(\w+)", _NAMES, re.M))}
