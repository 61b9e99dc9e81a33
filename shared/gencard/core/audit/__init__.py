"""A generator judged from outside: does it use more than Phi?"""
