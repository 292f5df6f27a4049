# llmc, the compiler's command line.
