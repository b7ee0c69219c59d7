#!/bin/sh
log_info "no file is sourced"
