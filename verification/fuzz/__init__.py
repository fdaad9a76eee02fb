"""Coverage-guided fuzzing of the gate, one target for each scheme.

``python -m verification.fuzz hmac --seconds 60`` fuzzes one scheme, ``make fuzz`` all of them. The
targets need nothing but the tests' own modules; only the engine needs atheris.
"""
