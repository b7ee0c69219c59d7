import numpy as np
import PyPDF2
from google.cloud import storage
import mystery.deep
import cgi
import ctypes
from multiprocessing import shared_memory, Pool
import smtplib
from PIL import Image

def later():
    import pandas
    import openai
