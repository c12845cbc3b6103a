"""Where results are written: in a folder that nobody else can enter, then moved to their name.

The folder of an output may belong to somebody who plants links and files in it, or swaps folders.
So it is opened once and then named by its descriptor, and nothing is written at a name that others
could have made.
"""
