def PrivateAttr(default=None):
    return default
