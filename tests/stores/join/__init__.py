"""Every way a user can hold a connection, behind one face, so that one test body serves all."""
