-- What limits the iterations and can be helped.
SELECT *, {'code': code} AS what FROM finding
