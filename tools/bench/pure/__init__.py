"""The codec in pure Python beside the last commit that had no accelerator."""

#: The last commit before `kwire.accelerator`, and the name that its results have.
BASE, PEER = "1623a33910", "without accelerator"
#: The geometric mean of the ratios that counts as not slower; single cases differ by up to a tenth between runs.
LIMIT = 0.98
