"""stub"""
def check(params): pass
