"""Property tests here are judged by what they find, never by how long a machine took."""

from hypothesis import HealthCheck, settings

settings.register_profile("env", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("env")
