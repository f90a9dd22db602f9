"""Counts the files of a folder, in the target interpreter."""

import os
import sys

functions = {"__name__": "process"}
with open(sys.argv[1], encoding="utf-8") as file:
    exec(compile(file.read(), sys.argv[1], "exec"), functions)

if __name__ == "__main__":
    recorder = functions["open_recorder"]()
    recorder.finish({"files": len(os.listdir(recorder.request["folder"]))})
