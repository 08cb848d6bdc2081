"""Trees and other structures of text: reading and writing them, and the arrays that wire them. No torch."""
