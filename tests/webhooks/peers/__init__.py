"""The libraries that duly's gate is compared with, one small adapter each.

Of duly's sixteen providers two have no peer here: Linear and Zoom offer no Python library that
verifies their webhooks.
"""

from tests.webhooks.peers.adyen import AdyenNotification, AdyenPayload
from tests.webhooks.peers.discord import Discord
from tests.webhooks.peers.gidgethub import GitHub, GitHubSha1
from tests.webhooks.peers.hubspot import HubSpotV1, HubSpotV2, HubSpotV3
from tests.webhooks.peers.paddle import Paddle
from tests.webhooks.peers.peer import Peer
from tests.webhooks.peers.sendgrid import SendGrid
from tests.webhooks.peers.shopify import Shopify
from tests.webhooks.peers.slack import Slack
from tests.webhooks.peers.square import Square
from tests.webhooks.peers.standardwebhooks import GitLab, StandardWebhooks
from tests.webhooks.peers.stripe import Stripe
from tests.webhooks.peers.svix import Svix
from tests.webhooks.peers.twilio import TwilioForm, TwilioJson, TwilioSharedKey

WITHOUT_A_PEER = {"linear", "zoom"}

PEERS: tuple[Peer, ...] = (
    AdyenNotification(),
    AdyenPayload(),
    Discord(),
    GitHub(),
    GitHubSha1(),
    GitLab(),
    HubSpotV1(),
    HubSpotV2(),
    HubSpotV3(),
    Paddle(),
    SendGrid(),
    Shopify(),
    Slack(),
    Square(),
    StandardWebhooks(),
    Stripe(),
    Svix(),
    TwilioForm(),
    TwilioJson(),
    TwilioSharedKey(),
)
