"""Planted bugs: defects put into a copy of duly, one at a time, to see that its proofs turn red.

A proof that cannot fail proves nothing. Each patch beside this file is one defect as somebody might
write it; its head says what it does to a user, which command must find it, and what that must say.

    python -m verification.mutation --help
"""
