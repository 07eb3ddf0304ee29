/* Shortens demangled names of C++ functions. */
#ifndef GM_CXX_NAME_H
#define GM_CXX_NAME_H

/* Leaves out default arguments of templates of the C++ library (allocators, traits, deleters, comparisons) and its
 * inline namespaces, and names std::string: "load(std::__cxx11::basic_string<char, std::char_traits<char>,
 * std::allocator<char> > const&)" becomes "load(std::string const&)". Changes `name` in place. */
void gm_cxx_name_shorten(char *name);

#endif
