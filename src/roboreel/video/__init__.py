"""Video files ⇄ images: packet tables, plans, decoders, encoders, remuxing."""
