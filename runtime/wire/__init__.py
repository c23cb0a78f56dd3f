"""What the drivers share below them: gRPC plumbing, our .proto files and generated code."""
