# What has to be installed to build this: looked for at once, and all that is missing is told at once
# with Debian's names of the packages. README.md lists the same packages.
set(MISSING "")
set(MISSING_PACKAGES "")

# need(VARIABLES WHAT PACKAGE): what find_ commands found of the package.
function(need variables what package)
  foreach(variable IN LISTS variables)
    if(NOT ${variable})
      set(MISSING "${MISSING}\n  ${what}: ${package}" PARENT_SCOPE)
      set(MISSING_PACKAGES "${MISSING_PACKAGES} ${package}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

find_program(CLANG NAMES clang)
need(CLANG "clang, which compiles for BPF" clang)
find_program(LLVM_STRIP NAMES llvm-strip llvm-strip-14)
need(LLVM_STRIP "llvm-strip" llvm)
find_path(LIBBPF_INCLUDE_DIR bpf/bpf_helpers.h)
find_library(LIBBPF NAMES bpf)
need("LIBBPF_INCLUDE_DIR;LIBBPF" "libbpf and its headers" libbpf-dev)
find_path(ZYDIS_INCLUDE_DIR Zydis/Zydis.h)
find_library(LIBZYDIS NAMES Zydis)
need("ZYDIS_INCLUDE_DIR;LIBZYDIS" "Zydis and its headers" libzydis-dev)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h)
need(RAPIDJSON_INCLUDE_DIR "RapidJSON's headers" rapidjson-dev)
find_package(ZLIB QUIET)
need(ZLIB_FOUND "zlib and its headers" zlib1g-dev)
find_package(Python QUIET COMPONENTS Interpreter Development.Module)
need(Python_FOUND "Python and its headers" python3-dev)

if(MISSING)
  string(STRIP "${MISSING_PACKAGES}" MISSING_PACKAGES)
  message(FATAL_ERROR "missing, with the Debian package that holds it:${MISSING}\n"
    "hint: sudo apt-get install ${MISSING_PACKAGES}")
endif()
