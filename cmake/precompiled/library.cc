// Carries the precompiled header of the libraries (cmake/GemingaPrecompiled.cmake).
