#pragma once
// Stands in for the host's <ctype.h>: its functions as they are in the locale "C".
extern "C++" {  // where it is included inside extern "C" too
__device__ constexpr int islower(int c) { return 'a' <= c && c <= 'z'; }
__device__ constexpr int isupper(int c) { return 'A' <= c && c <= 'Z'; }
__device__ constexpr int isdigit(int c) { return '0' <= c && c <= '9'; }
__device__ constexpr int isxdigit(int c) { return isdigit(c) || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F'); }
__device__ constexpr int isalpha(int c) { return islower(c) || isupper(c); }
__device__ constexpr int isalnum(int c) { return isalpha(c) || isdigit(c); }
__device__ constexpr int isblank(int c) { return c == ' ' || c == '\t'; }
__device__ constexpr int isspace(int c) { return c == ' ' || ('\t' <= c && c <= '\r'); }
__device__ constexpr int iscntrl(int c) { return (0 <= c && c < 32) || c == 127; }
__device__ constexpr int isprint(int c) { return 32 <= c && c < 127; }
__device__ constexpr int isgraph(int c) { return 32 < c && c < 127; }
__device__ constexpr int ispunct(int c) { return isgraph(c) && !isalnum(c); }
__device__ constexpr int tolower(int c) { return isupper(c) ? c + ('a' - 'A') : c; }
__device__ constexpr int toupper(int c) { return islower(c) ? c - ('a' - 'A') : c; }
}
