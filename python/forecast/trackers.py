def begin(): pass
