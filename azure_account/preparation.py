"""Before the first write to a container: it is created if it is absent. One rule, for all that writes.

The request is for a blob in it: a container SAS does not permit a request for the container's properties.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from azure_account.container import BlobContainer

logger = logging.getLogger("azure_account")

_NO_BLOB = "_container"
"""A name that no blob of this project has."""


def create_if_absent(container: BlobContainer, *, allowed: bool) -> bool:
    """Create the container if it is absent, and log a warning. True if this call created it.

    allowed: option `createContainer`; `NotFoundError` if it is false and the container is absent. `ConfigurationError`
    if the service does not let this identity create it.
    """
    try:
        container.properties(_NO_BLOB)
    except NotFoundError as absent:
        if not allowed:
            step = "Check its name, create it first, or leave out option `createContainer`."
            cause = "it does not exist, and option `createContainer` is false"
            raise NotFoundError("write to container", container.url, cause, step) from absent
        return _create(container)
    return False


def _create(container: BlobContainer) -> bool:
    try:
        created = container.create()
    except ConfigurationError as refused:
        step = "Check its name, or create it first with an identity that has the permission."
        cause = f"it does not exist and cannot be created ({refused.cause})"
        raise ConfigurationError("write to container", container.url, cause, step) from refused
    if created:
        logger.warning("container %s did not exist and was created", container.url)
    return created
