"""Connects the Python SDK of kubernetes-sigs/agent-sandbox with a sandbox of `skillhost serve --sandboxd`.

The SDK sends no credentials of its own. Its connector takes them: a header of its HTTP session, and an
interceptor of its gRPC channel.
"""

import collections
import json
import urllib.error
import urllib.request

import grpc
from k8s_agent_sandbox.commands.command_executor import CommandExecutor
from k8s_agent_sandbox.connector import ConnectionStrategy, SandboxConnector
from k8s_agent_sandbox.files.filesystem import Filesystem
from k8s_agent_sandbox.models import SandboxdPodTunnelConnectionConfig


class CallDetails(
    collections.namedtuple("CallDetails", "method timeout metadata credentials wait_for_ready compression"),
    grpc.ClientCallDetails,
):
    """A call, as interceptors pass it on."""


class Token(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Sends the token of a sandbox with each call."""

    def __init__(self, token):
        self.header = ("authorization", f"Bearer {token}")

    def _with_token(self, details):
        return CallDetails(
            details.method, details.timeout, [*(details.metadata or []), self.header],
            details.credentials, details.wait_for_ready, details.compression)

    def intercept_unary_unary(self, go_on, details, request):
        return go_on(self._with_token(details), request)

    def intercept_unary_stream(self, go_on, details, request):
        return go_on(self._with_token(details), request)


class Address(ConnectionStrategy):
    """A server that can be reached as it is, without a tunnel. Both protocols are on one port."""

    def __init__(self, address):
        self.base_url, self.grpc_target = f"http://{address}", address

    def connect(self):
        return self.base_url

    def close(self):
        pass

    def verify_connection(self):
        pass

    def should_inject_router_headers(self):
        return False


class Connector(SandboxConnector):
    """A connector of one sandbox, with its token."""

    def __init__(self, address, token):
        super().__init__("sandbox", "default", SandboxdPodTunnelConnectionConfig(), None)
        self.strategy, self.token = Address(address), token
        self.session.headers["Authorization"] = f"Bearer {token}"

    def grpc_channel(self):
        return grpc.intercept_channel(super().grpc_channel(), Token(self.token))


class Sandbox:
    """A session of the run API, as the SDK sees it."""

    def __init__(self, api, address, skill):
        self.api, self.address = api, address
        self.id = self._post("/v1/sessions", {"skills": [skill]})["id"]
        self.token = self._post(f"/v1/sessions/{self.id}/token")["token"]
        self.connector = Connector(address, self.token)
        self.files = Filesystem(self.connector, None, "test")
        self.commands = CommandExecutor(self.connector, None, "test")

    def end(self):
        """Ends the session, which may have ended."""
        request = urllib.request.Request(f"{self.api}/v1/sessions/{self.id}", method="DELETE")
        try:
            urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            assert error.code == 410, error

    def _post(self, path, body=None):
        data = json.dumps(body).encode() if body else b""
        request = urllib.request.Request(self.api + path, data=data, method="POST")
        return json.load(urllib.request.urlopen(request))
