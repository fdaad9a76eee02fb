"""Messages, one relay process each: two loops as people write them by hand, and duly.

Every contender gets a database of its own at full durability, the same messages in it, a process of
its own, and the same receiver: a process that counts what arrives and answers at once. What is left
to differ is how each takes a message from its table, sends it, and writes that it was sent.
"""
