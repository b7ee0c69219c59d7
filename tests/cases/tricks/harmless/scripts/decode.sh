base64 -d data.b64 > image.png
