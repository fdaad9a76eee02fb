"""The libraries that duly's gate is compared with, one small adapter each.

Of duly's sixteen providers two have no peer here: Linear and Zoom offer no Python library that
verifies their webhooks.
"""

from tests.gate.peers.adyen import AdyenNotification, AdyenPayload
from tests.gate.peers.discord import Discord
from tests.gate.peers.gidgethub import GitHub, GitHubSha1
from tests.gate.peers.hubspot import HubSpotV1, HubSpotV2, HubSpotV3
from tests.gate.peers.paddle import Paddle
from tests.gate.peers.peer import Peer
from tests.gate.peers.sendgrid import SendGrid
from tests.gate.peers.shopify import Shopify
from tests.gate.peers.slack import Slack
from tests.gate.peers.square import Square
from tests.gate.peers.standardwebhooks import GitLab, StandardWebhooks
from tests.gate.peers.stripe import Stripe
from tests.gate.peers.svix import Svix
from tests.gate.peers.twilio import TwilioForm, TwilioJson, TwilioSharedKey

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
