// Carries the precompiled header of the tests (cmake/GemingaPrecompiled.cmake).
