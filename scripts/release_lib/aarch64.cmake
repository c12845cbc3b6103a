# Compiles for aarch64 elsewhere: Debian's cross compilers, with the libraries and headers of a root,
# which RLSCOPE_SYSROOT names, and the headers of CPython in RLSCOPE_PYTHON_HEADERS.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT "$ENV{RLSCOPE_SYSROOT}")
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Modules are then named for aarch64, not for the Python that runs the build.
set(PYBIND11_USE_CROSSCOMPILING ON)
set(Python_INCLUDE_DIR "$ENV{RLSCOPE_PYTHON_HEADERS}" CACHE PATH "" FORCE)
