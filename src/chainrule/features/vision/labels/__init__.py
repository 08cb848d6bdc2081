"""What classifiers of pictures label: whole pictures, their pixels, or boxes in them."""
