"""What went wrong with a request, in a sentence for the reader of the page.

The library's own messages are not passed on: they hold whole URLs, whose queries may hold keys.
"""

from __future__ import annotations

import ssl

import aiohttp

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.guard import AddressRefused
from webgpt_jax.web.target import Target, refusal


def is_transient(error: aiohttp.ClientError) -> bool:
    """Whether asking again may help: the connection broke once it stood, or the answer broke off."""
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError)):
        return False
    return isinstance(error, (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError))


def explain(error: aiohttp.ClientError, target: Target) -> WebError:
    """The `WebError` that stands for an error of aiohttp."""
    shown = target.shown
    cause = getattr(error, "os_error", None)
    if isinstance(cause, AddressRefused):
        return refusal(target, cause)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate = error.certificate_error
        reason = certificate.verify_message if isinstance(certificate, ssl.SSLCertVerificationError) else "invalid"
        return WebError(
            "tls",
            f"{shown} was not read because the certificate of {target.host} is not trusted ({reason}); "
            "check the address and this machine's clock and certificates.",
        )
    if isinstance(error, aiohttp.ClientSSLError):
        return WebError("tls", f"{shown} was not read because no secure connection came about; try another page.")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return WebError(
            "dns",
            f"{shown} was not read because the address of {target.host} was not found; "
            "check its spelling and this machine's network.",
        )
    if isinstance(error, aiohttp.ServerTimeoutError):
        return WebError("timeout", f"{shown} was not read because its server went silent; try again later.")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = cause.strerror if isinstance(cause, OSError) and cause.errno and cause.strerror else "unreachable"
        return WebError(
            "connect",
            f"{shown} was not read because {target.host} cannot be connected to ({reason}); try again later.",
        )
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)):
        return WebError("connect", f"{shown} was not read because the connection broke off; try again later.")
    return WebError("protocol", f"{shown} was not read because its server does not speak HTTP as it should.")
