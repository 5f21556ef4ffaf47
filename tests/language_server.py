"""A client of pyright's language server: what an editor shows at a position of a program."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any


class LanguageServer:
    """A server in a process of its own, which has one program open. Positions are a line, counted from 0, and a word in it."""

    def __init__(self, command: list[str], python: str, root: Path, program: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.python, self.requests, self.lines = python, 0, program.splitlines()
        self.diagnostics: list[dict] | None = None
        self.request("initialize", processId=os.getpid(), rootUri=root.as_uri(), workspaceFolders=[
            {"uri": root.as_uri(), "name": "root"}], capabilities={
                "textDocument": {"hover": {"contentFormat": ["plaintext"]}}, "workspace": {"configuration": True}})
        self.notify("initialized")
        self.uri = (root / "program_in_editor.py").as_uri()
        self.notify("textDocument/didOpen", textDocument={"uri": self.uri, "languageId": "python", "version": 1, "text": program})

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def hover(self, line: int, word: str) -> str:
        found = self.request("textDocument/hover", **self._position(line, word))
        return found["contents"]["value"] if found else ""

    def definitions(self, line: int, word: str) -> list[str]:
        """Return the files with the definitions of a word."""
        found = self.request("textDocument/definition", **self._position(line, word))
        return [place["uri"].removeprefix("file://") for place in found or []]

    def errors(self) -> list[str]:
        while self.diagnostics is None:
            self._handle(self._read())
        return [found["message"] for found in self.diagnostics]

    def _position(self, line: int, word: str) -> dict[str, Any]:
        return {"textDocument": {"uri": self.uri}, "position": {"line": line, "character": self.lines[line].rindex(word)}}

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, **params: Any) -> Any:
        self.requests += 1
        self._send({"id": self.requests, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self.requests and "method" not in message:
                return message.get("result")
            self._handle(message)

    def _handle(self, message: dict) -> None:
        """Answer a request of the server, or store the diagnostics that it reports."""
        if message["method"] == "textDocument/publishDiagnostics":
            self.diagnostics = message["params"]["diagnostics"]
        elif "id" in message:
            items = message["params"].get("items") if message["method"] == "workspace/configuration" else None
            self._send({"id": message["id"], "result": items and [{"pythonPath": self.python} for _ in items]})

    def _send(self, message: dict) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _read(self) -> dict:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.process.stdout.read(length))
