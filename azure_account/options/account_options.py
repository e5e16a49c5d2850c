"""The options of an account: credentials, endpoints, proxies, retries. Every entry point has them in its table."""

from __future__ import annotations

from azure_account.options.option_table import Option, OptionTable, boolean, integer, milliseconds, one_of, text

AUTHS = (
    "default",
    "accountKey",
    "sas",
    "connectionString",
    "managedIdentity",
    "workloadIdentity",
    "clientSecret",
    "clientCertificate",
    "azureCli",
    "anonymous",
)

_ACCOUNT, _PROXY, _RETRY = "Account and credentials", "Proxy", "Retries and time limits"

ACCOUNT_OPTIONS = OptionTable(
    (
        Option(
            "auth",
            one_of(*AUTHS),
            None,
            "Kind of credential.",
            _ACCOUNT,
            shown_default="follows from the options, see above",
        ),
        Option("accountName", text(), None, "Storage account; not needed with a URL or connection string.", _ACCOUNT),
        Option("accountKey", text(), None, "Shared key of the account.", _ACCOUNT, secret=True),
        Option(
            "accountAccessKey",
            text(),
            None,
            "`accountKey` under a name that Spark masks in plans.",
            _ACCOUNT,
            secret=True,
        ),
        Option("sasToken", text(), None, "Shared access signature, with or without `?`.", _ACCOUNT, secret=True),
        Option(
            "connectionString",
            text(),
            None,
            "Connection string of the account; `UseDevelopmentStorage=true` is the local emulator.",
            _ACCOUNT,
            secret=True,
        ),
        Option(
            "connectionSecret",
            text(),
            None,
            "`connectionString` under a name that Spark masks in plans.",
            _ACCOUNT,
            secret=True,
        ),
        Option("tenantId", text(), None, "Entra tenant of the service principal.", _ACCOUNT),
        Option("clientId", text(), None, "Service principal, or user-assigned managed identity.", _ACCOUNT),
        Option("clientSecret", text(), None, "Secret of the service principal.", _ACCOUNT, secret=True),
        Option(
            "certificatePath", text(), None, "PEM or PKCS12 file of the service principal, on every host.", _ACCOUNT
        ),
        Option("certificatePassword", text(), None, "Password of that file.", _ACCOUNT, secret=True),
        Option(
            "endpoint",
            text(),
            None,
            "URL of the blob service, for sovereign clouds, private links and emulators.",
            _ACCOUNT,
            shown_default="`https://<account>.blob.core.windows.net`",
        ),
        Option(
            "tableEndpoint",
            text(),
            None,
            "URL of the table service.",
            _ACCOUNT,
            shown_default="the blob endpoint with `table` for `blob`",
        ),
        Option(
            "createContainer",
            boolean(),
            default=True,
            help="`true`: what writes creates its container if it is absent, and logs a warning. `false`: it fails.",
            group=_ACCOUNT,
        ),
        Option(
            "proxy.use", boolean(), default=False, help="Send storage requests through an HTTP proxy.", group=_PROXY
        ),
        Option("proxy.hostname", text(), None, "Host of that proxy.", _PROXY),
        Option("proxy.port", integer(1, 65535), None, "Port of that proxy.", _PROXY),
        Option("proxy.username", text(), None, "User of that proxy, if it asks for one.", _PROXY),
        Option("proxy.password", text(), None, "That user's password.", _PROXY, secret=True),
        Option(
            "authProxy.use",
            boolean(),
            default=False,
            help="Send requests for tokens to Entra ID through an HTTP proxy.",
            group=_PROXY,
        ),
        Option("authProxy.hostname", text(), None, "Host of that proxy.", _PROXY),
        Option("authProxy.port", integer(1, 65535), None, "Port of that proxy.", _PROXY),
        Option("authProxy.username", text(), None, "User of that proxy, if it asks for one.", _PROXY),
        Option("authProxy.password", text(), None, "That user's password.", _PROXY, secret=True),
        Option("maxAttempts", integer(1, 100), 12, "Attempts of one request, the first included.", _RETRY),
        Option("connectTimeoutMs", milliseconds(1), 10_000, "Limit for opening a connection.", _RETRY),
        Option(
            "requestTimeoutMs",
            milliseconds(1),
            60_000,
            "Limit for sending one request, and for waiting for its answer.",
            _RETRY,
        ),
        Option("retryDeadlineMs", milliseconds(1), 120_000, "No retry begins later than this.", _RETRY),
    )
)
"""The options that name an account and its credentials, and how its requests are made."""
