"""The families of archs, and the Tegra capabilities: written independently of the package."""

from __future__ import annotations

FAMILIES = {
    100: {100, 103, 107},
    101: {101},
    103: {103, 107},
    107: {107},
    110: {110},
    120: {120, 121},
    121: {121},
}
TEGRA = {53, 62, 72, 87, 101, 110}
