"""Work in processes of its own: bounded, killable, without grpc."""
