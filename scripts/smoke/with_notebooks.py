"""The extra ``notebooks``: a kernel runs a cell that uses the package."""

import nbformat
from nbclient import NotebookClient

cell = nbformat.v4.new_code_cell("import privagg; print(privagg.__version__)")
book = nbformat.v4.new_notebook(cells=[cell])
NotebookClient(book, timeout=120, kernel_name="python3").execute()
print("a kernel has privagg", book.cells[0].outputs[0]["text"].strip())
