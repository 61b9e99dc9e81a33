"""Black boxes that the controller admits: by name, with the digest of their code and who reviewed it.

In: the settings. Out: facts for cards and policies, and recipes from which jobs make a box.
"""
